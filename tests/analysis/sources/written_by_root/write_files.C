// Writes the files beside it, which neither uproot nor tests/builders can write:
//   root -l -b -q write_files.C+
// They were written with ROOT 6.40.

#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/TIOFeatures.hxx>
#include <TClonesArray.h>
#include <TFile.h>
#include <TObject.h>
#include <TRef.h>
#include <TTree.h>
#include <TVirtualStreamerInfo.h>

#include <cstdio>
#include <string>
#include <vector>

class Deposit {
public:
   float x;
   int id;
   Deposit(float a = 0) : x(a), id(int(a)) {}
   virtual ~Deposit() {}
   ClassDef(Deposit, 2)
};

class Trace : public TObject {
public:
   float pt;
   std::vector<Deposit> hits;
   TRef best;
   Trace(float a = 0) : pt(a) {}
   ClassDef(Trace, 3)
};

class Collision : public TObject {
public:
   int run = 0;
   std::vector<Trace> tracks;
   ClassDef(Collision, 1)
};

#ifdef __ROOTCLING__
#pragma link C++ class Deposit+;
#pragma link C++ class Trace+;
#pragma link C++ class Collision+;
#pragma link C++ class std::vector<Deposit>+;
#pragma link C++ class std::vector<Trace>+;
#endif

// Every third text is empty; one in four baskets begins with an empty one. A long text has its length in four bytes.
void texts()
{
   TFile file("texts.root", "RECREATE", "", 505);
   TTree tree("Events", "");
   char text[400];
   tree.Branch("text", text, "text/C", 256);
   for (int i = 0; i < 40; ++i) {
      std::string value = i % 3 == 0 ? "" : i % 10 == 5 ? std::string(300, 'x') : "t" + std::to_string(i);
      snprintf(text, sizeof(text), "%s", value.c_str());
      tree.Fill();
   }
   tree.Write();
}

// Baskets of lists that do not say where the lists begin, cut elsewhere than those of their counter.
void no_offsets()
{
   TFile file("no_offsets.root", "RECREATE", "", 505);
   TTree tree("Events", "");
   ROOT::TIOFeatures features;
   features.Set(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap);
   tree.SetIOFeatures(features);
   int n;
   float pt[20];
   double point[20][3];
   tree.Branch("n", &n, "n/I", 400);
   tree.Branch("pt", pt, "pt[n]/F", 400);
   tree.Branch("point", point, "point[n][3]/D", 4000);
   for (int i = 0; i < 200; ++i) {
      n = (i * 7) % 5;
      for (int k = 0; k < n; ++k) {
         pt[k] = i + k / 4.f;
         for (int m = 0; m < 3; ++m)
            point[k][m] = i * 100 + k * 10 + m;
      }
      tree.Fill();
   }
   tree.Write();
}

// Objects stored whole (split level 0), and split with lists of objects stored memberwise; every second track that is
// split is referred to, which makes its fBits longer.
void objects()
{
   TVirtualStreamerInfo::SetStreamMemberWise(true);
   TFile file("objects.root", "RECREATE", "", 505);
   TTree tree("Events", "");
   int number;
   std::vector<Deposit> hits, *hits_at = &hits;
   std::vector<Trace> tracks, *tracks_at = &tracks;
   std::vector<std::vector<float>> lists, *lists_at = &lists;
   Collision *collision = new Collision;
   TClonesArray *clones = new TClonesArray("Trace");
   tree.Branch("number", &number, "number/I");
   tree.Branch("hits", &hits_at, 32000, 0);
   tree.Branch("tracks", &tracks_at, 32000, 0);
   tree.Branch("lists", &lists_at, 32000, 0);
   tree.Branch("collision.", &collision, 32000, 0);
   tree.Branch("Trace", &clones, 32000, 99);
   for (number = 0; number < 20; ++number) {
      hits.clear();
      tracks.clear();
      lists.clear();
      clones->Clear("C");
      for (int k = 0; k < (number + 1) % 4; ++k) {
         hits.push_back(Deposit(number + k));
         lists.push_back(std::vector<float>(k, number));
         Trace track(number + k / 2.f);
         track.hits = hits;
         tracks.push_back(track);
         Trace *split = (Trace *)clones->ConstructedAt(k);
         split->pt = track.pt;
         split->hits = hits;
         if ((number + k) % 2)
            split->best = split;
      }
      collision->run = number;
      collision->tracks = tracks;
      tree.Fill();
   }
   tree.Write();
}

// Numbers of type double in 20 and 32 bits: steps between -3 and 17, or with a shorter mantissa.
void quantised()
{
   auto model = ROOT::RNTupleModel::Create();
   auto steps_20 = std::make_unique<ROOT::RField<double>>("steps_20");
   steps_20->SetQuantized(-3., 17., 20);
   model->AddField(std::move(steps_20));
   auto steps_32 = std::make_unique<ROOT::RField<double>>("steps_32");
   steps_32->SetQuantized(-3., 17., 32);
   model->AddField(std::move(steps_32));
   auto cut_20 = std::make_unique<ROOT::RField<double>>("cut_20");
   cut_20->SetTruncated(20);
   model->AddField(std::move(cut_20));
   auto single = std::make_unique<ROOT::RField<float>>("single");
   single->SetQuantized(-3., 17., 20);
   model->AddField(std::move(single));
   auto lists = ROOT::RFieldBase::Create("lists", "std::vector<double>").Unwrap();
   static_cast<ROOT::RField<double> *>(lists->GetMutableSubfields()[0])->SetQuantized(-3., 17., 24);
   model->AddField(std::move(lists));
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "Events", "quantised.root");
   auto entry = writer->CreateEntry();
   for (int i = 0; i < 50; ++i) {
      double x = -3 + 20. * ((i * 7919) % 1000) / 999.;
      *entry->GetPtr<double>("steps_20") = *entry->GetPtr<double>("steps_32") = *entry->GetPtr<double>("cut_20") = x;
      *entry->GetPtr<float>("single") = x;
      entry->GetPtr<std::vector<double>>("lists")->assign(i % 3, x);
      writer->Fill(*entry);
      if (i % 20 == 19)
         writer->CommitCluster();
   }
}

void write_files()
{
   texts();
   no_offsets();
   objects();
   quantised();
}
